"""The HTTP API behind the pages: routes, access and limits. What they show comes from ``pipestream.views``."""
