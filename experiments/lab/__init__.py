"""What the experiments share: software brought up and taken down, load by `brisk bench`, verdicts, pages."""
