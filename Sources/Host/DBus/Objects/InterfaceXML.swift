/// Formats interfaces in D-Bus's introspection format, for `Introspect` and for the files in
/// `/usr/share/dbus-1/interfaces`.
public enum InterfaceXML {
  private static let documentType = """
    <!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
      "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">

    """

  /// The `<interface>` element, indented by two spaces, with its documentation as `org.gtk.GDBus.DocString`.
  public static func render(_ interface: Interface) -> String {
    var xml = Writer(depth: 1)
    xml.element("interface", ["name": interface.name]) { xml in
      xml.documentation(interface.documentation)
      xml.audience(interface.audience)
      for method in interface.methods { xml.method(method) }
      for signal in interface.signals { xml.signal(signal) }
      for property in interface.properties { xml.property(property, interface.signalled(property)) }
    }
    return xml.text
  }

  /// A complete document with these interfaces, for installation.
  public static func document(_ interfaces: [Interface]) -> String {
    node(interfaces, [])
  }

  static func node(_ interfaces: [Interface], _ children: [String]) -> String {
    var xml = Writer(depth: 1)
    for child in children { xml.element("node", ["name": child]) }
    return documentType + "<node>\n" + interfaces.map(render).joined() + xml.text + "</node>\n"
  }
}

/// Writes elements line by line.
private struct Writer {
  private(set) var text = ""
  private var depth: Int

  init(depth: Int) {
    self.depth = depth
  }

  mutating func element(
    _ name: String, _ attributes: KeyValuePairs<String, String>, _ content: ((inout Writer) -> Void)? = nil
  ) {
    let indentation = String(repeating: "  ", count: depth)
    text += indentation + "<" + name
    for (key, value) in attributes { text += " \(key)=\"\(Self.escape(value))\"" }
    var inner = Writer(depth: depth + 1)
    content?(&inner)
    text += inner.text.isEmpty ? "/>\n" : ">\n" + inner.text + indentation + "</" + name + ">\n"
  }

  mutating func annotation(_ name: String, _ value: String) {
    element("annotation", ["name": name, "value": value])
  }

  mutating func documentation(_ documentation: String) {
    if !documentation.isEmpty { annotation("org.gtk.GDBus.DocString", documentation) }
  }

  /// Writes the annotation for the audience of an item. Items for everybody have none.
  mutating func audience(_ audience: Audience) {
    if audience != .everybody { annotation("org.earshot.Audience", audience.rawValue) }
  }

  mutating func method(_ method: Method) {
    element("method", ["name": method.name]) { xml in
      let errors = method.errors.isEmpty ? "" : "Errors: \(method.errors.joined(separator: ", "))."
      xml.documentation([method.documentation, errors].filter { !$0.isEmpty }.joined(separator: " "))
      // Methods are for the group unless they are marked.
      if method.audience == .viewers { xml.audience(method.audience) }
      for argument in method.in { xml.argument(argument, direction: "in") }
      for argument in method.out { xml.argument(argument, direction: "out") }
    }
  }

  mutating func signal(_ signal: Signal) {
    element("signal", ["name": signal.name]) { xml in
      xml.documentation(signal.documentation)
      for argument in signal.arguments { xml.element("arg", ["name": argument.name, "type": argument.signature]) }
    }
  }

  mutating func argument(_ argument: Argument, direction: String) {
    element("arg", ["name": argument.name, "type": argument.signature, "direction": direction])
  }

  mutating func property(_ property: Property, _ emits: Property.Emits) {
    let attributes: KeyValuePairs = [
      "name": property.name, "type": property.signature, "access": property.access.rawValue,
    ]
    element("property", attributes) { xml in
      xml.documentation(property.documentation)
      xml.audience(property.audience)
      if emits != .changes {
        xml.annotation("org.freedesktop.DBus.Property.EmitsChangedSignal", emits.rawValue)
      }
    }
  }

  /// Removes control characters, which XML does not allow, except tab and line ends.
  private static func escape(_ value: String) -> String {
    var escaped = ""
    for scalar in value.unicodeScalars {
      switch scalar {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "\n", "\t", "\r": escaped += "&#\(scalar.value);"
      default: escaped.unicodeScalars.append(scalar.value < 32 ? "\u{FFFD}" : scalar)
      }
    }
    return escaped
  }
}
