"""Where the outside comes in: engines, HTTP, the logs themselves. They translate and carry; they decide nothing."""
