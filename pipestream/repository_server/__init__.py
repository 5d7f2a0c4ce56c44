"""The Repository as a server: ``PipeDocService`` over gRPC, uploads and webhooks over HTTP, relay of the outbox."""
