"""What requests and answers hold: the types that decode, encode and describe them."""
