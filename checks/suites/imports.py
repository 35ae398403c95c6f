"""Files of other tools: every record of theirs is accounted for, and what they gave is still here."""

from checks.model import Between, OneOf, Rule, Suite

IMPORTS = Suite(
    "imports",
    "imported files account for their records",
    (
        Rule(
            "imports.on-record",
            "Imported rows come from an import on record.",
            "SELECT import_id, rows_here, on_record FROM imported_files ORDER BY import_id",
            (OneOf("on_record", (True,)),),
            "{rows_here} rows of {import_id} come from no import on record",
        ),
        Rule(
            "imports.accounted",
            "Every record of a file became a row or a refusal with a name.",
            """
            SELECT import_id, source, records_in, rows_out, refused, named,
                abs(records_in - rows_out - refused) + abs(refused - named) AS unaccounted
            FROM imported_files WHERE on_record ORDER BY import_id
            """,
            (Between("unaccounted", high=0),),
            "{source} ({import_id}): {records_in} records, {rows_out} rows, {refused} refused, {named} named",
        ),
        Rule(
            "imports.present",
            "The rows that a file gave are in the lake.",
            """
            SELECT import_id, source, rows_out, rows_here, abs(rows_out - rows_here) AS difference
            FROM imported_files WHERE on_record ORDER BY import_id
            """,
            (Between("difference", high=0),),
            "{source} ({import_id}) gave {rows_out} rows, of which {rows_here} are here",
        ),
    ),
    tables=("imported_files",),
)
