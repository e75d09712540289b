std = "lua54"
max_line_length = 110
exclude_files = { "build*/", "lua/reprise/types.lua" }
files["spec"] = { std = "+busted" }
files[".busted"] = { std = "lua54" }
