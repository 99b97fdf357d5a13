extension Configuration {
  /// The installed file: every key with its documentation, commented out with its default. At most 80 columns.
  public var defaultFile: String {
    var lines = Self.wrapped(
      "Settings of \(subject). Each key is shown with its default. To change a key, remove its #, or set it in a file "
        + "in \(file).d/ beside this file; package upgrades do not change that folder. An empty value means the "
        + "default. Quotation marks around a whole value are removed.")
    lines.append("#")
    lines += Self.wrapped(
      "Times have the units ms, s, min and h; sizes have the units K, M and G. `systemctl reload` applies changes, "
        + "except to keys that need a restart.")
    lines += ["#", "# Check with: \(program) --check-config"]
    var section = ""
    for key in table {
      if key.section != section {
        section = key.section
        lines += ["", "[\(section)]"]
      }
      lines.append("")
      lines += Self.wrapped(key.documentation)
      lines += Self.wrapped("Takes \(key.form)." + (key.change == .onRestart ? " Needs a restart." : ""))
      lines.append("#\(key.key)=\(key.fallback)")
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func wrapped(_ text: String) -> [String] {
    var lines: [String] = []
    var line = "#"
    for word in text.split(separator: " ") {
      if line.count + 1 + word.count > 80 {
        lines.append(line)
        line = "#"
      }
      line += " \(word)"
    }
    return lines + [line]
  }
}
