// One TCP flow over one bottleneck in ns-3, with the settings of `crates/core/sim/examples/dumbbell.rs`.
// `bench/simulator.py` compiles it against the headers of the PyPI wheel and reads the JSON it prints.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>
#include <sstream>
#include <sys/resource.h>

using namespace ns3;

namespace
{

std::ostringstream windows;
double step = 0.0;
double next_at = 0.0;
double finished = -1.0;
uint64_t wanted = 0;
uint64_t received = 0;
uint64_t sent = 0;

void
Window(uint32_t, uint32_t cwnd)
{
    const double now = Simulator::Now().GetSeconds();
    if (step > 0.0 && now >= next_at)
    {
        windows << (windows.tellp() > 0 ? ", " : "") << "[" << now << ", " << cwnd << "]";
        next_at = now + step;
    }
}

void
Watch()
{
    Config::ConnectWithoutContext("/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/CongestionWindow",
                                  MakeCallback(&Window));
}

void
Received(Ptr<const Packet> packet, const Address&)
{
    received += packet->GetSize();
    if (wanted > 0 && received >= wanted && finished < 0.0)
    {
        finished = Simulator::Now().GetSeconds();
        Simulator::Stop();
    }
}

void
Sent(Ptr<const Packet> packet)
{
    sent += packet->GetSize() > 1000 ? 1 : 0;
}

double
Seconds()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
           1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

} // namespace

int
main(int argc, char** argv)
{
    double rate = 1000.0;
    double rtt = 10.0;
    double seconds = 1.0;
    double loss = 0.0;
    uint32_t ssthresh = 0xffffffff;
    uint32_t queue = 0;
    double trace = 0.0;
    uint32_t acks = 2;
    std::string drop;
    std::string algorithm = "TcpNewReno";
    CommandLine arguments;
    arguments.AddValue("rate", "Mbit/s", rate);
    arguments.AddValue("rtt", "ms", rtt);
    arguments.AddValue("seconds", "simulated", seconds);
    arguments.AddValue("loss", "packets per 10^9", loss);
    arguments.AddValue("drop", "numbers of the packets that are lost, from 0, as 700,2000", drop);
    arguments.AddValue("acks", "segments per ACK", acks);
    arguments.AddValue("ssthresh", "bytes", ssthresh);
    arguments.AddValue("queue", "bytes", queue);
    arguments.AddValue("bytes", "to transfer; 0 for no end", wanted);
    arguments.AddValue("trace", "ms between two windows; 0 for none", trace);
    arguments.AddValue("algorithm", "a class of ns-3", algorithm);
    arguments.Parse(argc, argv);
    step = trace / 1e3;

    const uint32_t segment = 1448;
    const uint32_t buffer = 512u << 20;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + algorithm)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(ssthresh));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(acks));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));

    NodeContainer nodes;
    nodes.Create(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(rate * 1e6))));
    link.SetDeviceAttribute("Mtu", UintegerValue(1500));
    link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(static_cast<uint64_t>(rtt * 500.0))));
    std::ostringstream size;
    size << queue << "B";
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(size.str()));
    NetDeviceContainer devices = link.Install(nodes);
    if (loss > 0.0)
    {
        Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
        errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        errors->SetRate(loss / 1e9);
        devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    }
    if (!drop.empty())
    {
        std::list<uint32_t> numbers;
        std::istringstream words(drop);
        for (std::string word; std::getline(words, word, ',');)
        {
            numbers.push_back(static_cast<uint32_t>(std::stoul(word)));
        }
        Ptr<ReceiveListErrorModel> errors = CreateObject<ReceiveListErrorModel>();
        errors->SetList(numbers);
        devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    }
    InternetStackHelper stack;
    stack.Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    // Assign() has put fq_codel before the device's queue, which is to be the only one.
    TrafficControlHelper().Uninstall(devices);

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
    ApplicationContainer sinks = sink.Install(nodes.Get(1));
    sinks.Start(ns3::Seconds(0.0));
    sinks.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Received));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 5000));
    source.SetAttribute("MaxBytes", UintegerValue(wanted));
    source.SetAttribute("SendSize", UintegerValue(segment));
    source.Install(nodes.Get(0)).Start(ns3::Seconds(0.0));
    devices.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Sent));
    if (step > 0.0)
    {
        Simulator::Schedule(MicroSeconds(1), &Watch);
    }

    Simulator::Stop(ns3::Seconds(seconds));
    const double before = Seconds();
    Simulator::Run();
    const double used = Seconds() - before;
    Simulator::Destroy();
    std::cout << "{\"received\": " << received << ", \"segments\": " << sent
              << ", \"finished_s\": " << finished << ", \"cpu_s\": " << used << ", \"cwnd\": ["
              << windows.str() << "]}" << std::endl;
    return 0;
}
