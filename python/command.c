/* The command of the package of Python: all of it is in the library beside it. */
int flashtl_main(int argc, char **argv);

int main(int argc, char **argv) {
    return flashtl_main(argc, argv);
}
