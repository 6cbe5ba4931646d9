"""GLM-OCR in this process: checkpoint, prompt, image, vision, and a lean text decoder."""
