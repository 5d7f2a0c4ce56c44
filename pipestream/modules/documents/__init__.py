"""The built-in modules that read documents: text and metadata of files, language, keywords, chunks.

Each is a function that a graph names, such as ``python:pipestream.modules.documents.parse:parse``. They read no clock
and no random numbers, so a repeat gives the same bytes. ``docs/modules.md`` describes them.
"""
