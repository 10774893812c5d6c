"""What any Python project needs: errors, validation, threads, atomic files, array types."""
