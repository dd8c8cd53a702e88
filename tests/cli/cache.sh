flashtl cache
flashtl cache --cache folder
mkdir folder && echo mine > folder/note
flashtl cache size --cache folder
touch folder/00000000000000000000000000000001.kernel
FLASHTL_CACHE=folder flashtl cache | sed 's/ [0-9.]* h old//'
FLASHTL_CACHE=folder flashtl cache --json | sed 's/"modified":[0-9]*/"modified":0/'
flashtl cache clear --cache folder
ls folder
