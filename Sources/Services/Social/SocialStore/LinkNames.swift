import ASN

/// The names of links in the trees of the original servers. Facts: asn.md section 7
///
/// A message, and a blob whose name ends with a slash, is linked under its sum. Earshot uses the first 64 digits of the
/// sum, as in the published document; the originals use the epoch in 16 digits, `_`, and 16 digits of the sum.
enum LinkNames {
  /// The name in a tree: the original servers' form for a link under a sum, otherwise the unchanged name.
  static func exported(_ link: Link) -> String {
    guard let folder = folder(of: link.name, under: String(link.sum.hex.prefix(64))) else { return link.name }
    return "\(folder)\(digits(link.epoch))_\(link.sum.hex.prefix(16))"
  }

  /// The name in a store for a link that has `name` in a tree. A link under a sum gets the form of the document,
  /// whether the tree uses that form or the original servers'.
  static func imported(_ name: String, _ header: BlobHeader) -> String {
    let hex = header.sum.hex
    let forms = [digits(header.epoch) + "_" + hex.prefix(16), String(hex.prefix(32)), String(hex.prefix(64)), hex]
    for form in forms {
      if let folder = folder(of: name, under: form) { return folder + String(hex.prefix(64)) }
    }
    return name
  }

  /// The part of the name up to its last slash, if the rest is `base`.
  private static func folder(of name: String, under base: String) -> String? {
    name.hasSuffix("/\(base)") ? String(name.dropLast(base.count)) : nil
  }

  private static func digits(_ epoch: UInt64) -> String {
    let hex = String(epoch, radix: 16)
    return String(repeating: "0", count: 16 - hex.utf8.count) + hex
  }
}
