"""The nouns: frozen values from the standard library only, with the words of the domain."""
