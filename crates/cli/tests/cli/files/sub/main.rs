fn main() {
    let s = Box::leak(b);
}
