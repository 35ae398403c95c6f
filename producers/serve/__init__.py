"""Served engines under one common client: a labelled reference beside dispatch, never in one ranking with it."""
