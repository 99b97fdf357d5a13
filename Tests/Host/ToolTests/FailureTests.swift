import CommandLine
import DBus
import Testing

@testable import Tool

@Suite("What the tool makes of an error from the bus")
struct FailureTests {
  @Test(
    "A service that does not run, and that the bus cannot start, is not running",
    arguments: [
      "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner",
      "org.freedesktop.systemd1.NoSuchUnit", "org.freedesktop.systemd1.UnitMasked",
    ])
  func notRunning(name: String) {
    let failure = Failure(DBusError(name: name, message: "as the bus says it"), service: "org.earshot")
    #expect(failure.code == .notRunning)
    #expect(failure.text.hasPrefix("org.earshot is not running"))
    #expect(failure.text.contains("enable --now") == name.contains("systemd1"))
  }
}
