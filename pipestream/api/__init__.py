"""The functions that the package ``pipestream`` exports; import them from there."""
