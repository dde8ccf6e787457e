# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/completion: scripts for shells, which ask gpumapctl.  gpumapctl prints
# them, too.
gm_completions = \
	%reldir%/bash/gpumapctl \
	%reldir%/zsh/_gpumapctl \
	%reldir%/fish/gpumapctl.fish
EXTRA_DIST += $(gm_completions)

if AGENT
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = %reldir%/bash/gpumapctl
zshcompletiondir = $(datadir)/zsh/site-functions
zshcompletion_DATA = %reldir%/zsh/_gpumapctl
fishcompletiondir = $(datadir)/fish/vendor_completions.d
fishcompletion_DATA = %reldir%/fish/gpumapctl.fish

# Each as a text of C.
agent/ctl/completion_scripts.h: $(gm_completions)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	for f in $(gm_completions); do \
	  shell=$${f%/*}; \
	  echo "static const char completion_$${shell##*/}[] =" && \
	  $(SED) -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $(srcdir)/$$f && \
	  echo ';' || exit 1; \
	done >$@.tmp && mv $@.tmp $@
$(agent_ctl_gpumapctl_OBJECTS): agent/ctl/completion_scripts.h
CLEANFILES += agent/ctl/completion_scripts.h
endif
