"""What stores without interactive transactions share (Redis, DynamoDB): claims are leased, the rest waits for the commit."""
