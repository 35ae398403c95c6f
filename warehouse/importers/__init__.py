"""Result files of other tools, one module a format: detected, parsed, and added to the lake once.

A format is a module with an ``IMPORTER`` (:class:`warehouse.importers.base.Importer`) that stands in
:data:`warehouse.importers.registry.MODULES`. ``warehouse import`` goes through
:func:`warehouse.importers.importing.import_paths`.
"""
