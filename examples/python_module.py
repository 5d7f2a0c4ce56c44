"""A module that is a Python function. In a graph: ``module: "python:python_module:classify"``.

A node's ``config`` is checked against the schema when the graph is applied.
"""

from pipestream import ModuleContext, PipeDoc, declare_module

SCHEMA = {"type": "object", "properties": {"words": {"type": "array"}}, "additionalProperties": False}


@declare_module(config_schema=SCHEMA)
def classify(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    words = context.config.get("words", ["invoice", "total"])
    text = document.search_metadata.body.lower()
    if not text:
        raise ValueError("the document has no text")  # it becomes a dead letter with this reason
    document.search_metadata.document_type = "INVOICE" if any(word in text for word in words) else "OTHER"
    return document  # a list fans out, None ends the route
