"""Options that several checks have."""


def add_transport(parser):
    parser.add_argument("--transport", choices=("auto", "grpc", "shared_memory"), default="auto")
