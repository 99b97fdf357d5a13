import Presence

/// The service of private presence.
@main
struct EarshotPresenced {
  static func main() { PresenceDaemon.program.main() }
}
