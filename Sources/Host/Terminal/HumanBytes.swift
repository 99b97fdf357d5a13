/// Formats a number of bytes for a person: `999 B`, `1.5 KiB`, `12 MiB`; the units are powers of 1024.
public func humanBytes(_ count: some BinaryInteger) -> String {
  let count = UInt64(clamping: count)
  let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
  guard count >= 1024 else { return "\(count) B" }
  // The largest unit that is not larger than the number.
  let step = (63 - count.leadingZeroBitCount) / 10
  let shift = UInt64(step * 10)
  let whole = count >> shift
  let tenth = ((count & ((1 << shift) - 1)) * 10) >> shift
  return (whole < 10 ? "\(whole).\(tenth)" : "\(whole)") + " \(units[step - 1])"
}
