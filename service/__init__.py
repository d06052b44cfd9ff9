"""traincost: what a training run will cost, when it will end, and how sure we are."""

__version__ = "0.1.0"
