import Air
import DBus
import Listing
import Loop
import Sharing

/// The D-Bus interfaces as files for `/usr/share/dbus-1/interfaces`, generated from the descriptions of the objects.
@LoopActor
enum InterfaceFiles {
  /// - Returns: whether all could be written; errors are reported on standard error.
  static func write(_ list: ServiceList, to directory: String) -> Bool {
    let time = VirtualTime()
    let driver = AirSpace(scheduler: time, seed: 0).addNode()
    let radio = SharedRadio(driver: driver, scheduler: time).tenant("interfaces", share: .nothing)
    let interfaces = list.interfaces(radio: radio, scheduler: time)
    let results = interfaces.map { interface in
      OutputFile.write(InterfaceXML.document([interface]), to: "\(directory)/\(interface.name).xml")
    }
    return !results.contains(false)
  }
}
