from tests.inbox.conftest import *  # noqa: F403 - the same worlds
