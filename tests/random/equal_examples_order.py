"""TL Code whose statements come in another order: slots of shared memory that are waited for, given back and filled, and what stands
beside them; and limits of votes."""
from equal_examples_votes import replaced

SLOTS = """kernel slots for a100
let d = 64, BM = 64, BN = 48
Input  Q bf16 (q in q_len, d)
Input  K bf16 (kv in kv_len, d)
Input  bias f32 (q in q_len, kv in kv_len)
Output O bf16 (q in q_len)
grid q_block in q_len/BM
let blocks = ceil(kv_len/BN)
Allocate Q in shared bf16 (BM, d) swizzled 128
Allocate K in shared bf16 (BN, d) swizzled 128 stages 2
Allocate near, bias in shared f32 (BM, BN)
role math with 4 warps
    Allocate Q in register bf16 (BM, d) as mma_A
    Allocate S in register f32 (BM, BN) as mma_C
    Copy Q (BM, d) in coordinate [L = q_block] from global to shared by cp_async async
    Wait Q_shared
    Copy Q from shared to register by ldmatrix
    Release Q_shared
    Compute Multiply Q_register, 0.125 and get Q_register
    for j = 0:blocks
        Wait K_shared
        Compute GEMM Q_register, K_shared.T and get S by m16n8k16
        Copy K (BN, d) in coordinate [L = j + 1] from global to shared by cp_async async
        Release K_shared
        let slow = any(not part < 1024)
        if slow
            let hard = any(not part < 65000)
        end
        Compute RowSum S and accumulate O_register
    end
    Copy O (BM) in coordinate [L = q_block] from register to global
end""".splitlines()
GIVEN = "    Release Q_shared"


def beside(statement, given="Release Q_shared"):
    """A slot that is given back, and a statement after it, in another order."""
    text = replaced(SLOTS, ("    Wait Q_shared", "    Wait near_shared"), ("Compute Multiply Q_register, 0.125 and get Q_register", statement), (GIVEN, f"    {given}"))
    return text, f"    {given}", 2, [f"    {statement}", f"    {given}"]


def filled(*changes):
    """A slot that is filled, and one that is given back, in another order."""
    text = replaced(SLOTS, *changes)
    at = next(i for i, x in enumerate(text) if "L = j + 1" in x)
    return text, text[at], 2, [text[at + 1], text[at]]


def limit(old, now):
    line = next(x for x in SLOTS if old in x)
    return SLOTS, line, 1, [line.replace(old, now)]


IN_ORDER = (
    (*beside("Compute Multiply Q_register, 0.125 and get Q_register"), True), (*beside("Compute Multiply Q_register, 0.125 and get Q_register", "Wait Q_shared"), True),
    (*beside("Compute Abs Q_register and get Q_register"), True), (*beside("Compute Cast Q_shared and get Q_register"), False), (*beside("Compute Cast Q and get Q_register"), False),
    (*beside("Compute Add Q_register, bias and get Q_register"), False), (*beside("Compute GEMM Q_register, Q_shared.T and get S by m16n8k16"), False),
    (*beside("Copy Q from shared to register by ldmatrix"), False), (*beside("Compute Multiply Q_register, 0.125 and get Q_register", "Wait Q_register"), False),
    (*filled(), True), (*filled(("stages 2", "stages 1")), False), (*filled((" stages 2", "")), False), (*filled((" by cp_async async", "")), False), (*filled(("Release K", "Wait K")), False),
    (*filled(("j + 1] from global to shared by cp_async async", "j + 1] from register to shared by cp_async async")), False),
    (*limit("< 65000", "< 65001"), True), (*limit("< 65000", "< 65505"), False), (*limit("< 1024", "< 2048"), True), (*limit("< 1024", "< 100000"), False), (*limit("part < 1024", "other < 1025"), False))
