"""`python -m service` is the command `traincost`."""

from service.cli import main

main()
