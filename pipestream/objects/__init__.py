"""The object store: objects by key, in a folder or in an S3 bucket."""
