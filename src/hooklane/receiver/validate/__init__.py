"""What an application gives the inbox is checked when it is given: values, what the store can do, the outbox."""
