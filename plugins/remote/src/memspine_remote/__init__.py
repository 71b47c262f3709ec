"""Remote models for memspine: embeddings and rerankers over HTTP."""
