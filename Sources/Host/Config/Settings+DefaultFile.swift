extension Settings {
  /// The file that is installed: every key with its meaning, commented out at its default. At most 80 columns.
  public static var defaultFile: String {
    var lines = wrapped(
      "Settings of \(subject). Each key is shown with its default; remove the # to change it, or put a file with the "
        + "changed keys into earshot.conf.d/ beside this one, which an upgrade of the package leaves alone. An empty "
        + "value means the default.")
    lines.append("#")
    lines += wrapped(
      "A time takes the units ms, s, min and h, a size the units K, M and G. `systemctl reload` takes up changes, except "
        + "where a restart is asked for.")
    lines += ["#", "# Check with: earshotd --check-config"]
    var section = ""
    let defaults = Self()
    for setting in table {
      if setting.section != section {
        section = setting.section
        lines += ["", "[\(section)]"]
      }
      lines.append("")
      lines += wrapped(setting.documentation)
      lines += wrapped("Takes \(setting.form)." + (setting.change == .onRestart ? " Needs a restart." : ""))
      lines.append("#\(setting.key)=\(setting.show(defaults))")
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
