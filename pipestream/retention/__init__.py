"""Delete stored documents that nobody needs any more, and none that anybody still refers to.

``docs/decisions`` has the reasoning: see the page on deleting documents.
"""
