"""Reading a page: its regions, their crops, their texts, one Markdown."""
