"""Public functions: `pagerank`, `personalized_pagerank`, and the `Result` of a solve."""
