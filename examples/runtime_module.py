"""A function whose native code may crash. In a graph: ``module: "runtime:runtime_module:measure"``.

It runs in a process of its own. If that dies, this document is tried again and then fails; the others do not notice.
"""

import ctypes

from pipestream import ModuleContext, PipeDoc

LIBRARY = ctypes.CDLL(None)


def measure(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    if "crash" in context.config_params:
        LIBRARY.strlen(None)  # reads address 0: the process ends here
    text = document.search_metadata.body.encode()
    document.search_metadata.metadata["bytes"] = str(LIBRARY.strlen(text))
    return document
