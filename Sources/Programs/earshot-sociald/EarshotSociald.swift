import SocialDaemon

/// The social server: a process of its own, without a radio.
@main
struct EarshotSociald {
  static func main() { SocialDaemon.program.main() }
}
