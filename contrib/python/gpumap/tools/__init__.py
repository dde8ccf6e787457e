# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The commands of gpumapctl that show a node.

gpumapctl NAME runs the executable gpumapctl-NAME, which calls the main() of the
module NAME here.

    command    options, the map, messages and exit statuses of all of them
    text       numbers and facts as text
"""
