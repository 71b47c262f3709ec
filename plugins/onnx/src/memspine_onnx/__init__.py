"""Local models for memspine, run by onnxruntime: embeddings and a cross-encoder."""
