std = "lua54"
max_line_length = 120
exclude_files = { "build*/", "lua/reprise/types.lua" }
files["spec"] = { std = "+busted", max_line_length = 165 }
files[".busted"] = { std = "lua54" }
