"""A memory-bound program: copies 128 MiB over and over until it is ended."""

block = bytearray(256 << 20)
while True:
    block[: 128 << 20] = block[128 << 20 :]
