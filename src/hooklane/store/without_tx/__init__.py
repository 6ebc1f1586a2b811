"""What stores without interactive transactions share (Redis, DynamoDB): leased claims, a buffered rest."""
