"""Runs in object storage: what lies where (`names`), how it is found (`id_index`, `archive`), and the stores that can
hold it: a folder, a bucket, memory."""
