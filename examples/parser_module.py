"""A parser: it reads a document's file. In a graph: ``module: "python:parser_module:read_lines"``.

Files that are stored by reference are fetched for modules that declare to be parsers, and for no others.
"""

from pipestream import ModuleContext, PipeDoc, declare_module


@declare_module(is_parser=True)
def read_lines(document: PipeDoc, context: ModuleContext) -> list[PipeDoc]:
    lines = document.blob_bag.blob.data.decode().splitlines()
    parts = []
    for number, line in enumerate(line for line in lines if line.strip()):
        part = PipeDoc(doc_id=f"{document.doc_id}-{number}")  # derived: a repeat must give the same ids
        part.ownership.CopyFrom(document.ownership)
        part.search_metadata.title = line.split(":")[0]
        part.search_metadata.body = line
        parts.append(part)
    return parts
