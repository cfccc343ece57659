"""
ServerError             the process cannot run; its text is for the operator, without a trace
├── ConfigError         a setting is wrong: the operator has to change it
└── StartError          the settings are fine, but something they name is not as it must be
"""


class ServerError(Exception):
    exit_code = 1


class ConfigError(ServerError):
    exit_code = 2


class StartError(ServerError):
    pass
