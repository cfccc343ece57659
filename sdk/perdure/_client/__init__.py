"""What stands behind `perdure.client`: batches of calls, the stream of results, handles."""
