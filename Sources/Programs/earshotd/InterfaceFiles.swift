import Air
import DBus
import Glibc
import Interfaces
import Loop
import Sharing

/// The D-Bus interfaces as files for `/usr/share/dbus-1/interfaces`, written from the descriptions that the objects are
/// made of.
@LoopActor
enum InterfaceFiles {
  /// - Returns: whether all could be written; what could not is said on standard error.
  static func write(to directory: String) -> Bool {
    var isWhole = true
    let time = VirtualTime()
    let radio = SharedRadio(driver: AirSpace(scheduler: time, seed: 0).addNode(), scheduler: time)
      .tenant("none", share: LinkShare(needs: 0, may: 0, priority: 0))
    for interface in InterfaceList.all(radio: radio, scheduler: time) {
      let path = "\(directory)/\(interface.name).xml"
      let text = Array(InterfaceXML.document([interface]).utf8)
      if !write(text, to: path) {
        Earshotd.complain("\(path) cannot be written: \(String(cString: strerror(errno)))")
        isWhole = false
      }
    }
    return isWhole
  }

  private static func write(_ bytes: [UInt8], to path: String) -> Bool {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }
}
