"""The Engine: the gRPC fast path into graphs (``EngineV1Service``)."""
