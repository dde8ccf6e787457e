# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Completion of gpumapctl for fish.  gpumapctl itself knows how a line goes on.

function __gpumapctl_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l lines (command $words[1] complete -- $words "$current" 2>/dev/null)
    set -l head (string match --regex -- '^--[^=]*=' "$current")
    set -l value (string replace --regex -- '^--[^=]*=' '' "$current")
    switch "$lines[1]"
        case files
            string join \n -- "$head"(__fish_complete_path "$value")
        case folders
            string join \n -- "$head"(__fish_complete_directories "$value" '')
        case 'command *'
            set -l first (math (string replace 'command ' '' $lines[1]) + 1)
            complete --do-complete "$(string join ' ' -- (string escape -- $words[$first..]) $current)"
        case words
            string join \n -- $lines[2..]
    end
end

complete --command gpumapctl --no-files --arguments '(__gpumapctl_complete)'
